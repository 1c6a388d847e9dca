"""What the command does, each verb's work in one module; everything here only uses the layers below."""
