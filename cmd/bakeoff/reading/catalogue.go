package reading

import (
	"bakeoff/lab/manifest"
	"bakeoff/lab/trial"
	workloadall "bakeoff/measure/workload/all"
	driverall "bakeoff/provision/driver/all"
)

// catalogue is what lab files can name.
func catalogue() manifest.Catalogue {
	return trial.CatalogueOf(driverall.Drivers(), workloadall.Workloads())
}
