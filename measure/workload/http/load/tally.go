package load

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"bakeoff/measure/workload/http"
)

// parts is the number of equal parts of the timed part that are counted
// separately, for gates on trends.
const parts = 20

// tally has the counts of one thread. Times are in nanoseconds from the start
// of the timed part.
type tally struct {
	length int64 // of the timed part
	good   int64 // expected responses within it
	all    int64 // expected responses, including warm-up and drain
	window [parts]float64
	errors map[string]int64 // by class
	// latency has every expected response to a request that was sent, or
	// intended to be sent, within the timed part, including later
	// responses.
	latency *hdrhistogram.Histogram
	// lateness has, for an open loop, the delay of each request after its
	// intended time, or after a connection became free if that was later.
	// queued counts the latter.
	lateness *hdrhistogram.Histogram
	queued   int64
	// own is the lateness without the time in which the thread was kept
	// from running (see account); empty if unknown.
	own *hdrhistogram.Histogram
	// starved is how long the thread was ready to run without a CPU; -1 if
	// unknown. The resulting delays look like the server's.
	starved int64
}

func newTally(length int64) *tally {
	return &tally{length: length, errors: map[string]int64{}, latency: http.NewHistogram(),
		lateness: http.NewHistogram(), own: http.NewHistogram()}
}

// response counts an expected response at the time done (negative before the
// timed part) with its latency.
func (t *tally) response(done, latency int64) {
	t.all++
	http.Record(t.latency, latency)
	if done >= 0 && done < t.length {
		t.good++
		t.window[done*parts/t.length]++
	}
}

// countError counts an error.
func (t *tally) countError(class string) { t.errors[class]++ }

// recordSend records that the request due at due was sent at now over a connection
// that was free since free. It returns its lateness.
func (t *tally) recordSend(now, due, free int64) (late int64) {
	if free > due {
		t.queued++
		due = free
	}
	http.Record(t.lateness, now-due)
	return now - due
}

func (t *tally) merge(o *tally) {
	t.good += o.good
	t.all += o.all
	t.queued += o.queued
	if t.starved < 0 || o.starved < 0 {
		t.starved = -1
	} else {
		t.starved += o.starved
	}
	for i, n := range o.window {
		t.window[i] += n
	}
	for class, n := range o.errors {
		t.errors[class] += n
	}
	t.latency.Merge(o.latency)
	t.lateness.Merge(o.lateness)
	t.own.Merge(o.own)
}
