"""Submit directories of BPS's own HTCondor plug-in, read as run directories of Longshore's."""
