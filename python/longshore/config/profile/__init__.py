"""Job profiles: request, retry rules, environment, command and service settings that jobs of a label share."""
