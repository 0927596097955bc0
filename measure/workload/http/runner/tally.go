package runner

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"bakeoff/measure/workload/http"
)

// parts is the number of equal parts of the timed part that are counted
// apart, for gates on trends.
const parts = 20

// tally is what one thread counted. Times are in nanoseconds from the start
// of the timed part.
type tally struct {
	length int64 // of the timed part
	good   int64 // expected responses within it
	all    int64 // expected responses, those of warm-up and drain included
	window [parts]float64
	errors map[string]int64 // by class
	// latency holds every expected response to a request that was sent, or
	// meant to be sent, within the timed part; also those that came later.
	latency *hdrhistogram.Histogram
	// lateness, of an open loop, holds how long after it could be sent each
	// request was: after its intended time, or after a connection became
	// free if that was later. queued counts the latter.
	lateness *hdrhistogram.Histogram
	queued   int64
	// own is the lateness without what the thread was kept from: see account.
	// It is empty where that is not known.
	own *hdrhistogram.Histogram
	// starved is how long the thread was ready to run and others had its CPU,
	// -1 where the system does not tell: what comes late then looks like the
	// server's doing.
	starved int64
}

func newTally(length int64) *tally {
	return &tally{length: length, errors: map[string]int64{}, latency: http.NewHistogram(), lateness: http.NewHistogram(), own: http.NewHistogram()}
}

// response notes an expected response at the time done, which is negative
// before the timed part, and its latency.
func (t *tally) response(done, latency int64) {
	t.all++
	http.Record(t.latency, latency)
	if done >= 0 && done < t.length {
		t.good++
		t.window[done*parts/t.length]++
	}
}

// failed notes an operation that went wrong.
func (t *tally) failed(class string) { t.errors[class]++ }

// sent notes that the request due at due went out at now over a connection
// that has been free since free. It returns how late that is.
func (t *tally) sent(now, due, free int64) (late int64) {
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
