"""What a run is told: typed configuration, loaded from YAML."""
