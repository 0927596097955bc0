package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/reach/wire"
)

// measured holds the results of one generator in one run.
type measured struct {
	requests    float64
	cpu         float64 // seconds, of the whole process
	user        float64 // seconds of it
	sleeps      float64 // times that it gave up its CPU to wait
	utilisation float64 // of its CPU
	quantiles   map[string]float64
	latenessP50 float64
	latenessP99 float64
	latenessOwn float64 // p99, without delays by other programs
	priority    string
	starved     float64 // share of the time without a CPU although ready
	stolen      float64 // share of its CPU's time that the hypervisor took
	queued      float64 // share of requests that waited for a connection
}

func (m measured) perCPU() float64 { return m.requests / m.cpu }

// execute runs argv on the generator's CPU, and returns its output and its CPU time
// from rusage.
func (l *lab) execute(ctx context.Context, argv ...string) (out []byte, m measured, err error) {
	cmd := l.pinTo(ctx, l.generatorCPU, argv...)
	var b, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, m, fmt.Errorf("%s: %w: %s", argv[0], err, bytes.TrimSpace(said.Bytes()))
	}
	m.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	m.user = cmd.ProcessState.UserTime().Seconds()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.sleeps = float64(u.Nvcsw)
	}
	m.utilisation = m.cpu / time.Since(began).Seconds()
	return b.Bytes(), m, nil
}

// runNative runs bakeoff's load generator.
func (l *lab) runNative(ctx context.Context, addr string, args ...string) (measured, error) {
	out, m, err := l.execute(ctx, append([]string{l.self, "work", "http", "--json", "addr=" + addr}, args...)...)
	if err != nil {
		return m, err
	}
	var r wire.Result
	if err := json.Unmarshal(out, &r); err != nil {
		return m, err
	}
	if len(r.Errors) > 0 || !r.Check.Verified {
		return m, fmt.Errorf("native: errors %v, check %+v", r.Errors, r.Check)
	}
	m.quantiles = map[string]float64{}
	for _, v := range r.Values {
		m.quantiles[v.Metric] = v.Value
	}
	m.requests, m.starved, m.queued = m.quantiles["requests"], m.quantiles["generator-starved"],
		m.quantiles["queued-share"]
	m.stolen = m.quantiles["generator-stolen"]
	if g := r.Generator; g != nil {
		m.utilisation, m.priority = g.Utilisation, g.Priority
		if g.LatenessOwnP99 != nil {
			m.latenessOwn = *g.LatenessOwnP99
		}
		if g.LatenessP50 != nil && g.LatenessP99 != nil {
			m.latenessP50, m.latenessP99 = *g.LatenessP50, *g.LatenessP99
		}
	}
	return m, nil
}

// report is a script that makes wrk print its results as JSON.
const report = `
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\n{"requests":%d,"errors":%d,"p50":%f,"p90":%f,"p99":%f,"p999":%f,"max":%f}\n',
    summary.requests, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency:percentile(99.9), latency.max))
end
`

// runWrk runs wrk on a server: its scheme, address and port.
func (l *lab) runWrk(ctx context.Context, server string, connections int) (measured, error) {
	script := filepath.Join(l.dir, "report.lua")
	if err := os.WriteFile(script, []byte(report), 0o644); err != nil {
		return measured{}, err
	}
	out, m, err := l.execute(ctx, "wrk", "-t1", "-c"+strconv.Itoa(connections),
		"-d"+strconv.Itoa(int(l.length.Seconds()))+"s",
		"--latency", "-s", script, server+"/index.html")
	if err != nil {
		return m, err
	}
	var r struct{ Requests, Errors, P50, P90, P99, P999, Max float64 }
	at := bytes.LastIndexByte(out, '{')
	if at < 0 {
		return m, fmt.Errorf("wrk printed no summary: %q", out)
	}
	if err := json.Unmarshal(out[at:], &r); err != nil {
		return m, err
	}
	if r.Errors > 0 {
		return m, fmt.Errorf("wrk: %g errors", r.Errors)
	}
	m.requests = r.Requests
	const us = 1e-6
	m.quantiles = map[string]float64{"latency-p50": r.P50 * us, "latency-p90": r.P90 * us, "latency-p99": r.P99 * us,
		"latency-p999": r.P999 * us, "latency-max": r.Max * us}
	return m, nil
}

// summary is the line in which h2load counts requests.
var summary = lazy.Compile(`(?m)^requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, ` +
	`(\d+) errored, (\d+) timeout$`)

// h2load runs h2load with one stream per connection.
func (l *lab) h2load(ctx context.Context, server string, connections int) (measured, error) {
	out, m, err := l.execute(ctx, "h2load", "-t1", "-m1", "-c"+strconv.Itoa(connections),
		"-D"+strconv.Itoa(int(l.length.Seconds())), server+"/index.html")
	if err != nil {
		return m, err
	}
	line := summary.FindSubmatch(out)
	if line == nil {
		return m, fmt.Errorf("h2load printed no summary: %q", out)
	}
	for _, bad := range line[2:] {
		if string(bad) != "0" {
			return m, fmt.Errorf("h2load: %s", line[0])
		}
	}
	m.requests, err = strconv.ParseFloat(string(line[1]), 64)
	return m, err
}
