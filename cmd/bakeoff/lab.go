package main

import (
	driverall "bakeoff/driver/all"
	"bakeoff/manifest"
	"bakeoff/trial"
	workloadall "bakeoff/workload/all"
)

// catalogue is what lab files can name.
func catalogue() manifest.Catalogue {
	return trial.CatalogueOf(driverall.Drivers(), workloadall.Workloads())
}
