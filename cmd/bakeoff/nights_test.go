package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
)

// nightlyRun is a run that the program made; its files are the template of those of a
// script.
const nightlyRun = "../../lab/evidence/testdata/20261123T030217Z-quick.tar.gz"

// The contender and the cell in which the runs of a script change.
const (
	changedContender = "crun"
	changedCell      = "http-50"
)

// nights makes run folders of one lab, one for each night, with a label commit. From the
// run STEP on, a contender is a quarter slower. With machines, each run is that of another
// machine. The runs lack their raw output, except with whole.
//
//	nights RUNS STEP FOLDER [machines|whole]
func nights(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 && (len(args) != 4 || args[3] != "machines" && args[3] != "whole") {
		ts.Fatalf("usage: nights runs step folder [machines|whole]")
	}
	kind := append(args, "")[3]
	runs, err := strconv.Atoi(args[0])
	ts.Check(err)
	step, err := strconv.Atoi(args[1])
	ts.Check(err)
	_, files, err := storetest.Files(nightlyRun)
	ts.Check(err)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range runs {
		at := time.Date(2026, 1, 1+i, 2, 0, 0, 0, time.UTC)
		dir := filepath.Join(ts.MkAbs(args[2]), at.Format("20060102T150405Z")+"-quick")
		for name, text := range files {
			if kind != "whole" && strings.HasPrefix(name, store.RawDir+"/") {
				continue
			}
			switch name {
			case store.ResultsFile:
				text, err = changed(text, rng, i >= step)
				ts.Check(err)
			case store.JournalFile:
				labels := map[string]string{"commit": fmt.Sprintf("c%06d", i)}
				if kind == "machines" {
					labels[history.MachineLabel] = fmt.Sprintf("box-%d", i)
				}
				text, err = dated(text, at, labels)
				ts.Check(err)
			}
			file := filepath.Join(dir, filepath.FromSlash(name))
			ts.Check(os.MkdirAll(filepath.Dir(file), 0o777))
			ts.Check(os.WriteFile(file, text, 0o666))
		}
	}
}

// nightlyBlocks is how many blocks a run of a script has.
const nightlyBlocks = 8

// changed returns results of more blocks, with values that differ a little in each block
// and run, and of which one contender is slower.
func changed(text []byte, rng *rand.Rand, slower bool) ([]byte, error) {
	var r analysis.Results
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	for i, s := range r.Summaries {
		level := 1 + 0.005*rng.NormFloat64()
		if slower && s.Contender == changedContender && s.Cell == changedCell {
			level *= 0.75
		}
		var samples []analysis.Point
		for block := range nightlyBlocks {
			factor := level * (1 + 0.01*rng.NormFloat64())
			for _, p := range s.Samples {
				if p.Block == 0 {
					p.Block, p.Value = block, p.Value*factor
					samples = append(samples, p)
				}
			}
		}
		r.Summaries[i].Samples = samples
	}
	return json.Marshal(r)
}

// dated returns a journal that begins at another time, with labels.
func dated(text []byte, at time.Time, labels map[string]string) ([]byte, error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	var l store.Line
	if err := json.Unmarshal(first, &l); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	l.At = at
	label := store.Line{Type: store.LineLabels, At: at, Labels: labels}
	err := errors.Join(enc.Encode(l), enc.Encode(label))
	out.Write(rest)
	return out.Bytes(), err
}
