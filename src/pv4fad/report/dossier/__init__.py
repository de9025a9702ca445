"""The file for a supervisor: a page for each question, and the numbers behind them as JSON.

    processing    what is processed, and by whom; legal roles are left blank
    claims        ε, H, δ, and what they rest on
    learned       what each party has learned, in numbers
    attacks       what each party gets as an attacker
    validation    detection, its stability over time, other thresholds
    integrity     versions, hashes, signatures

Nothing here says anything about a single row or record.
"""
