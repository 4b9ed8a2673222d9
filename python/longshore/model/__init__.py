"""Records of Longshore: immutable types with units and rules, without input or output."""
