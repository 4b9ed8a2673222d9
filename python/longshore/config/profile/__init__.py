"""From values to the profile that jobs of a label share."""
