package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/execution/all"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// machine is the local machine as an environment.
type machine struct {
	local.Conn
	info driver.Info
}

func (m machine) Info() driver.Info               { return m.info }
func (m machine) Diagnose(context.Context) []byte { return nil }
func (m machine) Close(context.Context) error     { return nil }

// undisturbed prints how many of n real trials of each native workload fail which
// gate on this machine in its current state.
func (s study) undisturbed(n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bakeoff-gates")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var rows [][]string
	for _, w := range all.Runners() {
		if !slices.Contains([]string{"contextswitch", "cpu", "crypto", "files", "memory", "spawn", "switch", "syscall"},
			w.Doc().Name) {
			continue
		}
		target := execution.Target{State: map[string]string{}, Subject: machine{info: driver.Info{
			Agent: self, Scratch: filepath.Join(dir, "scratch"),
			Volumes: map[string]string{"/data": filepath.Join(dir, "data")}}}}
		for _, sub := range []string{"scratch", "data"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				return err
			}
		}
		failed := map[string]int{}
		for range n {
			gates, err := failedGates(w, target)
			if err != nil {
				return fmt.Errorf("%s: %w", w.Doc().Name, err)
			}
			for _, g := range gates {
				failed[g]++
			}
		}
		row := []string{w.Doc().Name, fmt.Sprint(n)}
		var parts []string
		for _, g := range evidence.Gates() {
			if k := failed[g.Name]; k > 0 {
				parts = append(parts, g.Name+" "+shareText(k, n))
			}
		}
		rows = append(rows, append(row, strings.Join(parts, ", ")))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	s.printTable(fmt.Sprintf("Real trials of 300 ms on this machine, percent gated (95 %% interval); load %s",
		strings.TrimSpace(string(load))),
		[]string{"workload", "trials", "gates"}, rows)
	return nil
}

// failedGates runs one trial as the runner does, and returns the gates that it fails.
func failedGates(w execution.Runner, target execution.Target) ([]string, error) {
	p := param.Defaults(w.Doc().Params)
	p["time"] = "300ms"
	if w.Doc().Name == "files" {
		p["op"], p["size"], p["block"] = "seq-write", "16MiB", "1MiB"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(w.Prepare(ctx, target, p), w.Reset(ctx, target, p)); err != nil {
		return nil, err
	}
	line := store.Line{Trial: &store.Trial{Start: time.Now()}}
	before := probe.ReadHost(nil)
	raw, err := w.Run(ctx, target, p)
	after := probe.ReadHost(nil)
	line.End, line.Before, line.After = time.Now(), &before, &after
	if err != nil {
		return nil, err
	}
	t := evidence.TrialOf(w, plan.Cell{Cell: manifest.Cell{Params: p}}, line, raw)
	var out []string
	for _, g := range evidence.Gates() {
		if g.Failed(t) != "" {
			out = append(out, g.Name)
		}
	}
	return out, nil
}
