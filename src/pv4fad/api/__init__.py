"""What `import pv4fad` offers; the same steps as on the command line (`lead`), with data frames."""
