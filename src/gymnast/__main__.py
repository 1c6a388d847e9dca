from gymnast.cli import entry

entry()
