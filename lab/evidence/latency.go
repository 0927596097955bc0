package evidence

import (
	"encoding/json"
	"errors"
	"path"

	"bakeoff/base/sample"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Answer is what the raw output of a trial says of itself besides its values.
type Answer struct {
	Generator *wire.Generator // nil where there is none
	Latencies *Latencies      // nil where nobody recorded them
}

// Latencies is the distribution of the latencies of one or more trials.
type Latencies struct {
	histogram *hdrhistogram.Histogram
	// Floor is the largest lateness of a load generator, in seconds: latencies below
	// it say nothing about the server. 0 if none was recorded.
	Floor  float64
	Trials int
}

// Count is the number of operations.
func (l *Latencies) Count() int64 { return l.histogram.TotalCount() }

// Seconds is the latency that percent of the operations did not exceed, percent between
// 0 and 100.
func (l *Latencies) Seconds(percent float64) float64 { return http.Seconds(l.histogram, percent) }

// Add adds the operations of o. It reports whether both have the same range.
func (l *Latencies) Add(o *Latencies) bool {
	a, b := l.histogram, o.histogram
	if a.HighestTrackableValue() != b.HighestTrackableValue() || a.SignificantFigures() != b.SignificantFigures() ||
		a.LowestTrackableValue() != b.LowestTrackableValue() || a.Merge(b) > 0 {
		return false
	}
	l.Floor = max(l.Floor, o.Floor)
	l.Trials += o.Trials
	return true
}

// AnswerOf reads the raw output f of run.
func AnswerOf(run *store.Run, f store.File) (Answer, error) {
	data, err := run.ReadRaw(f)
	if err != nil {
		return Answer{}, err
	}
	var r struct {
		Generator *wire.Generator `json:"generator"`
		Histogram string          `json:"histogram"`
		Values    []sample.Value  `json:"values"`
	}
	// A blob of another form is not an error: other programs also write blobs.
	if json.Unmarshal(data, &r) != nil {
		return Answer{}, nil
	}
	var a Answer
	if g := r.Generator; g != nil && g.Utilisation >= 0 && g.Utilisation < 1e6 {
		a.Generator = g
	}
	if r.Histogram != "" && path.Base(f.Name) == workload.Work {
		a.Latencies, err = latenciesOf(r.Histogram, r.Values)
	}
	return a, err
}

// maxHistogram bounds the text of a histogram, in bytes.
const maxHistogram = 1 << 20

// latenciesOf decodes a histogram. values are those of the trial, of which one may be
// the lateness of the generator.
func latenciesOf(text string, values []sample.Value) (*Latencies, error) {
	if len(text) > maxHistogram {
		return nil, errors.New("the histogram is too large")
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, err
	}
	if h.TotalCount() == 0 {
		return nil, nil
	}
	floor := max(0, http.Stated(wire.Result{Values: values}, "latency-floor"))
	return &Latencies{histogram: h, Trials: 1, Floor: floor}, nil
}
