package preflight

import (
	"bakeoff/lab/manifest"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
)

// CatalogueOf makes what lab files can name from the drivers and workloads.
func CatalogueOf[P workload.Parser](drivers []driver.Driver, workloads []P) manifest.Catalogue {
	c := manifest.Catalogue{Workloads: manifest.Workloads(workloads),
		Image:  func(ref string) error { return image.Request{Ref: ref}.Check() },
		Starts: image.Starts}
	for _, d := range drivers {
		doc := d.Doc()
		c.Drivers = append(c.Drivers, manifest.DriverEntry{
			Name: doc.Name, Summary: doc.Summary, Also: doc.Also, Options: doc.Options, Image: doc.Image, Folder: doc.Folder,
			OwnRoot: doc.OwnRoot, OwnSize: doc.OwnSize, Standing: doc.Standing,
			Files: doc.Files, Whole: doc.Whole, Backings: doc.Backings, Tunes: doc.Tuning.Takes,
			CommandLine: doc.CommandLine,
		})
	}
	return c
}
