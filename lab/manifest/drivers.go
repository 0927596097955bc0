package manifest

import (
	"cmp"
	_ "embed"
	"encoding/json"

	"bakeoff/measure/workload"
)

// driversJSON is written by `make docs` from the descriptions of the drivers.
//
//go:embed drivers.json
var driversJSON []byte

// Written returns the catalogue of what lab files could name when this program
// was built: the stored descriptions of the drivers, without their code, and the
// workloads that parsers read. Its drivers accept any tuning, because the run
// itself has already checked it.
func Written(parsers []workload.Parser) (Catalogue, error) {
	c := Catalogue{Workloads: Workloads(parsers)}
	return c, json.Unmarshal(driversJSON, &c.Drivers)
}

// Workloads returns what the lab file must know about workloads.
func Workloads[P workload.Parser](parsers []P) []WorkloadEntry {
	var out []WorkloadEntry
	for _, p := range parsers {
		doc := p.Doc()
		out = append(out, WorkloadEntry{
			Name: doc.Name, Summary: doc.Summary, Params: doc.Params, Metrics: doc.Metrics, Volume: cmp.Or(doc.Volume,
				doc.Within), Files: doc.Files, FileMemory: doc.FileMemory, Memory: doc.Memory,
		})
	}
	return out
}
