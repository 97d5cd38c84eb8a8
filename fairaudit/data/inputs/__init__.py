"""What a training is given: splits, constants fitted to training rows, encoded inputs."""
