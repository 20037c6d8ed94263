sparge-gen --version
