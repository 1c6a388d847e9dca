"""What a run's folder tells, in words, tables and text charts. Reads files alone; needs no torch."""
