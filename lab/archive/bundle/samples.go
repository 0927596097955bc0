package bundle

import (
	"io"
	"sync"

	kzstd "github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
)

// Sample is a row of the Parquet file: a trial of a contender at a cell and metric.
type Sample struct {
	Run       string `parquet:"run,dict"`
	Lab       string `parquet:"lab,dict"`
	Contender string `parquet:"contender,dict"`
	Cell      string `parquet:"cell,dict"`
	Metric    string `parquet:"metric,dict"`
	Unit      string `parquet:"unit,dict"`
	Instance  string `parquet:"instance,dict"`
	Block     int32  `parquet:"block"`
	Position  int32  `parquet:"position"`
	// Value is null if the trial failed: it then counts as the worst possible value.
	Value *float64 `parquet:"value,optional,split"`
}

// compressor compresses pages with one encoder, of which each keeps 16 MB.
type compressor struct {
	zstd.Codec // decompresses
	encoder    func() (*kzstd.Encoder, error)
}

var compressed = &compressor{encoder: sync.OnceValues(func() (*kzstd.Encoder, error) {
	return kzstd.NewWriter(nil, kzstd.WithEncoderConcurrency(1), kzstd.WithZeroFrames(true), kzstd.WithEncoderCRC(false))
})}

// Encode compresses a page.
func (c *compressor) Encode(dst, src []byte) ([]byte, error) {
	e, err := c.encoder()
	if err != nil {
		return nil, err
	}
	return e.EncodeAll(src, dst[:0]), nil
}

// Samples writes a Parquet file of samples. Its memory does not grow with their number.
type Samples struct {
	out *parquet.GenericWriter[Sample]
	buf []Sample
}

// rowsAtOnce is how many rows are given to the library at once; rowsInGroup is how many are
// kept in memory until they are written.
const (
	rowsAtOnce  = 4096
	rowsInGroup = 1 << 17
)

// NewSamples writes to w. Equal samples give equal bytes.
func NewSamples(w io.Writer) *Samples {
	return &Samples{buf: make([]Sample, 0, rowsAtOnce), out: parquet.NewGenericWriter[Sample](w,
		parquet.CreatedBy("bakeoff", "1", "0"), parquet.Compression(compressed),
		parquet.MaxRowsPerRowGroup(rowsInGroup))}
}

// Add adds a sample.
func (s *Samples) Add(x Sample) error {
	if s.buf = append(s.buf, x); len(s.buf) < rowsAtOnce {
		return nil
	}
	return s.flush()
}

func (s *Samples) flush() error {
	_, err := s.out.Write(s.buf)
	s.buf = s.buf[:0]
	return fault.Wrap(fault.Lab, "bundle: samples", err)
}

// Close writes the rest. It does not close the writer of NewSamples.
func (s *Samples) Close() error {
	if err := s.flush(); err != nil {
		return err
	}
	return fault.Wrap(fault.Lab, "bundle: samples", s.out.Close())
}

// WriteSamples writes the samples of results as a Parquet file.
func WriteSamples(w io.Writer, r Record, res analysis.Results) error {
	out := NewSamples(w)
	for _, s := range res.Summaries {
		row := Sample{Run: r.Run, Lab: r.Lab, Contender: s.Contender, Cell: s.Cell, Metric: s.Metric, Unit: s.Unit}
		add := func(block, position int, instance string, value *float64) error {
			row.Block, row.Position, row.Instance, row.Value = int32(block), int32(position), instance, value
			return out.Add(row)
		}
		for i := range s.Samples {
			p := &s.Samples[i]
			if err := add(p.Block, p.Position, p.Instance, &p.Value); err != nil {
				return err
			}
		}
		for _, p := range s.FailedAt {
			if err := add(p.Block, p.Position, p.Instance, nil); err != nil {
				return err
			}
		}
	}
	return out.Close()
}
