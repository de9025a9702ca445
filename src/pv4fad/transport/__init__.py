"""How encoded messages travel between parties."""
