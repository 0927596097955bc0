package bundle

import (
	"io"

	"github.com/parquet-go/parquet-go"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
)

// Sample is a row of the Parquet file: a trial of a contender at a cell and metric.
type Sample struct {
	Run       string `parquet:"run,dict,zstd"`
	Lab       string `parquet:"lab,dict,zstd"`
	Contender string `parquet:"contender,dict,zstd"`
	Cell      string `parquet:"cell,dict,zstd"`
	Metric    string `parquet:"metric,dict,zstd"`
	Unit      string `parquet:"unit,dict,zstd"`
	Instance  string `parquet:"instance,dict,zstd"`
	Block     int32  `parquet:"block,zstd"`
	Position  int32  `parquet:"position,zstd"`
	// Value is null if the trial failed: it then counts as the worst possible value.
	Value *float64 `parquet:"value,optional,split,zstd"`
}

// rowsAtOnce is how many rows are given to the library at once.
const rowsAtOnce = 4096

// WriteSamples writes the samples of results as a Parquet file. Equal results give equal
// bytes.
func WriteSamples(w io.Writer, r Record, res analysis.Results) error {
	out := parquet.NewGenericWriter[Sample](w, parquet.CreatedBy("bakeoff", "1", "0"))
	buf := make([]Sample, 0, rowsAtOnce)
	flush := func() error {
		_, err := out.Write(buf)
		buf = buf[:0]
		return err
	}
	for _, s := range res.Summaries {
		row := Sample{Run: r.Run, Lab: r.Lab, Contender: s.Contender, Cell: s.Cell, Metric: s.Metric, Unit: s.Unit}
		add := func(block, position int, instance string, value *float64) error {
			row.Block, row.Position, row.Instance, row.Value = int32(block), int32(position), instance, value
			if buf = append(buf, row); len(buf) < rowsAtOnce {
				return nil
			}
			return flush()
		}
		for i := range s.Samples {
			p := &s.Samples[i]
			if err := add(p.Block, p.Position, p.Instance, &p.Value); err != nil {
				return fault.Wrap(fault.Lab, "bundle: samples", err)
			}
		}
		for _, p := range s.FailedAt {
			if err := add(p.Block, p.Position, p.Instance, nil); err != nil {
				return fault.Wrap(fault.Lab, "bundle: samples", err)
			}
		}
	}
	err := flush()
	if err == nil {
		err = out.Close()
	}
	return fault.Wrap(fault.Lab, "bundle: samples", err)
}
