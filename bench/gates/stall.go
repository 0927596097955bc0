package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// web is a simulated trial of a web server with one worker, which serves first
// come, first served. Times are in milliseconds.
type web struct {
	rate    float64 // requests a second; 0 for a closed loop
	service func(*rand.Rand) float64
	pause   func(*rand.Rand) float64 // of the whole server, ten times a second; nil for none
	held    float64                  // share of the responses that TCP holds back,
	hold    func(*rand.Rand) float64 // for so long
}

const (
	webConnections = 50
	webTime        = 2000 // milliseconds
)

// serveTrial returns a trial of w as the load generator reports it.
func (w web) serveTrial(r *rand.Rand) evidence.Trial {
	h := http.NewHistogram()
	free := make([]float64, webConnections) // when each connection is free
	server, pause := 0.0, math.Inf(1)
	if w.pause != nil {
		pause = 100 * r.ExpFloat64()
	}
	for i := 0; ; i++ {
		c := 0
		for k := range free {
			if free[k] < free[c] {
				c = k
			}
		}
		due := free[c]
		if w.rate > 0 {
			due = 1000 * float64(i) / w.rate
		}
		if due >= webTime {
			break
		}
		server = max(server, due, free[c])
		for server >= pause {
			server += w.pause(r)
			pause = server + 100*r.ExpFloat64()
		}
		server += w.service(r)
		done := server + 0.05*math.Exp(0.3*r.NormFloat64()) // the way there and back
		if r.Float64() < w.held {
			done += w.hold(r)
		}
		free[c] = done
		http.Record(h, int64(1e6*(done-due)))
	}
	text, err := http.EncodeHistogram(h)
	if err != nil {
		panic(err) // a histogram of the package always has a form
	}
	p := param.Values{"connections": fmt.Sprint(webConnections), "keepalive": "true"}
	if w.rate > 0 {
		p["rate"] = fmt.Sprintf("%g/s", w.rate)
	}
	return evidence.Trial{Work: &wire.Result{Params: p, Histogram: text, Check: wire.Check{Verified: true}}}
}

func fixedTime(ms float64) func(*rand.Rand) float64 { return func(*rand.Rand) float64 { return ms } }

func exponential(ms float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return ms * r.ExpFloat64() }
}

func between(least, most float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return least + (most-least)*r.Float64() }
}

// paretoTime has the mean ms and an infinite variance: some requests take very long.
func paretoTime(ms float64) func(*rand.Rand) float64 {
	const shape = 1.5
	return func(r *rand.Rand) float64 { return ms * (shape - 1) / shape * math.Pow(1-r.Float64(), -1/shape) }
}

// twofold takes 0.1 ms, or long for one request in twenty.
func twofold(long float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.IntN(20) == 0 {
			return long
		}
		return .1
	}
}

// printStalls prints how often the gate stall fails: for servers that are slow in many
// ways, with nothing held back, and for responses that TCP holds back.
func (s study) printStalls() {
	head := []string{"server"}
	rates := []float64{0, 500, 2000, 5000}
	for _, rate := range rates {
		if rate == 0 {
			head = append(head, "closed loop")
		} else {
			head = append(head, fmt.Sprintf("%g/s", rate))
		}
	}
	var rows [][]string
	n := max(1, s.replays/10) // each has thousands of requests
	add := func(what string, w func(rate float64) web) {
		row := []string{what}
		for k, rate := range rates {
			r := rand.New(rand.NewPCG(s.seed, uint64(5000+10*len(rows)+k)))
			found := 0
			for range n {
				if failsGate(w(rate).serveTrial(r), "stall") {
					found++
				}
			}
			row = append(row, shareText(found, n))
		}
		rows = append(rows, row)
	}
	quick := exponential(.1)
	steady := func(what string, service, pause func(*rand.Rand) float64) {
		add(what, func(rate float64) web { return web{rate: rate, service: service, pause: pause} })
	}
	steady("exponential, 0.1 ms", quick, nil)
	steady("exponential, 0.19 ms", exponential(.19), nil)
	steady("heavy-tailed, 0.1 ms", paretoTime(.1), nil)
	steady("0.1 ms, for 5 % 2 ms", twofold(2), nil)
	steady("0.1 ms, for 5 % 10 ms", twofold(10), nil)
	steady("0.1 ms, pauses of 4 ms", quick, fixedTime(4))
	steady("0.1 ms, pauses of 25 ms", quick, fixedTime(25))
	steady("0.1 ms, pauses of 40 ms", quick, fixedTime(40))
	steady("0.1 ms, pauses of 1 to 50 ms", quick, between(1, 50))
	steady("0.1 ms, exponential pauses of 10 ms", quick, exponential(10))
	steady("0.1 ms, exponential pauses of 40 ms", quick, exponential(40))
	for _, part := range []float64{.02, .1, .3} {
		add(fmt.Sprintf("%.0f %% held back for 40 to 44 ms", 100*part), func(rate float64) web {
			return web{rate: rate, service: quick, held: part, hold: between(40, 44)}
		})
	}
	add("10 % held back for 0.7 to 1 × connections/rate", func(rate float64) web {
		turn := 1000 * webConnections / max(rate, 1)
		return web{rate: rate, service: quick, held: .1, hold: between(.7*turn, turn)}
	})
	s.printTable(fmt.Sprintf("Stall: percent of simulated trials gated, %d connections, %d trials a cell", webConnections,
		n),
		head, rows)
}

// failsGate reports whether a trial fails a gate.
func failsGate(t evidence.Trial, gate string) bool {
	for _, g := range evidence.Gates() {
		if g.Name == gate {
			return g.Failed(t) != ""
		}
	}
	return false
}
