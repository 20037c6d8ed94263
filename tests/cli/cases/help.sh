# Help goes to stdout and knows every command.
sparge-gen --help
