package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
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
}

// load reads and checks the lab file that args name.
func (f labFlags) load(args []string) (*manifest.Lab, error) {
	path, err := labPath(args)
	if err != nil {
		return nil, err
	}
	src, err := readBounded(path, yamltree.MaxSource)
	if err != nil {
		return nil, err
	}
	lab, err := manifest.Parse(path, src, session.Catalogue(), f.profile)
	if err != nil {
		return nil, err
	}
	return lab, lab.Keep(f.only)
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "%s does not exist", path)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	defer f.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, path, err)
	}
	if n > limit {
		return nil, fault.New(fault.Invalid, "%s is larger than the limit of %d bytes", path, limit)
	}
	return b.Bytes(), nil
}
