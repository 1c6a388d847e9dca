from gymnast.cli import main

main()
