package runsite

import (
	"encoding/json"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/archive/bundle"
	"bakeoff/publish/report"
)

// Describe returns what pages say of a run of a store, for its index, and the cautions of
// the run. It may change res.
func Describe(rec bundle.Record, res analysis.Results) (page []byte, cautions []string, err error) {
	rec = rec.Clean()
	e := report.DescribeResults(rec.Run, rec.Lab, rec.Machine["cpu.model"], res, rec.Unplanned, rec.Began, rec.Ended)
	page, err = json.Marshal(e)
	return page, e.Notice.Cautions(), fault.Wrap(fault.Lab, "describe", err)
}
