"""Plug-ins of LSST's BPS as services: any subclass of ``BaseWmsService`` under Longshore."""
