package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
)

// labName is the name of the lab file in a folder.
const labName = "bakeoff.yaml"

// labPath finds the lab file: a file, a folder with one, or without an argument
// the one in the current folder.
func labPath(args []string) (string, error) {
	path := labName
	if len(args) > 0 {
		path = args[0]
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, labName)
		_, err = os.Stat(path)
	}
	if err == nil {
		return path, nil
	}
	if os.IsNotExist(err) {
		return "", fault.WithFix(fault.New(fault.NotFound, "lab file %s does not exist", path),
			"name a lab file, or a folder with a "+labName)
	}
	return "", fault.Wrap(fault.Invalid, "lab file", err)
}

// labFlags are the flags that select parts of a lab file. The plan registers
// what they select.
type labFlags struct {
	profile string
	only    []string
	bind    []string // NAME=ADDRESS: hosts of pools
}

// loadLab reads and checks the lab file that args name, and knows the addresses of all
// hosts.
func (f labFlags) loadLab(args []string) (*manifest.Lab, error) {
	lab, err := f.loadPools(args)
	if err != nil {
		return nil, err
	}
	for _, b := range f.bind {
		name, address, _ := strings.Cut(b, "=")
		if err := lab.Bind(name, address); err != nil {
			return nil, err
		}
	}
	if open := lab.Unbound(); len(open) > 0 {
		return nil, fault.WithFix(fault.New(fault.Invalid,
			"host %s of the lab file has no address, because it comes from the pool %s", open[0],
			lab.Hosts[open[0]].Pool), "run the lab file with bakeoff run --on slurm")
	}
	return lab, nil
}

// loadPools is loadLab for a lab file whose hosts may come from pools.
func (f labFlags) loadPools(args []string) (*manifest.Lab, error) {
	path, err := labPath(args)
	if err != nil {
		return nil, err
	}
	src, err := cli.ReadSource(path)
	if err != nil {
		return nil, err
	}
	lab, err := manifest.Parse(path, src, session.Catalogue(), f.profile)
	if err != nil {
		return nil, err
	}
	return lab, lab.Keep(f.only)
}

// recordSources finds out what a plan registers of the files and the images that a lab file
// names, and returns the images that bakeoff does not build.
func (a *app) recordSources(ctx context.Context, lab *manifest.Lab) ([]inputs.Source, error) {
	if err := inputs.Record(ctx, lab, a.NoteProgress); err != nil {
		return nil, err
	}
	return inputs.Pin(ctx, a.at.Images(nil), lab, a.NoteProgress)
}
