"""Objects in pictures, found without labels."""
