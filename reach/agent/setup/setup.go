// Package setup creates the network namespace and the root of an environment on a Linux host, and
// removes them.
package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/container"
	"bakeoff/reach/conn"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// Command returns the command that sets up g with the agent at path on the
// host, and then continues as `enter` with args, if any; Entered reads its
// result.
func Command(g wire.Setup, path string, args ...string) (conn.Cmd, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return conn.Cmd{}, err
	}
	cmd := conn.Command(append([]string{path, "setup"}, args...)...)
	cmd.Stdin = bytes.NewReader(text)
	return cmd, nil
}

// maxRoot bounds the description of a root, in bytes.
const maxRoot = 1 << 20

// maxSetup bounds the description of a setup, in bytes.
const maxSetup = maxRoot + 4<<10

// Run is the subcommand `setup`: it reads a Setup on standard input and creates it. A failed step leaves
// nothing; the results of earlier steps stay, under the names in the
// description.
//
//	bakeoff-agent setup [FLAGS OF enter -- PROGRAM ARGUMENT…]
//
// With arguments it then continues as enter, in the same process, and reports
// failures like enter.
func Run(c command.Call) int {
	err := readSetup(c.Stdin)
	switch {
	case err == nil && len(c.Args) > 0:
		return c.Fail(container.Enter(c.Args))
	case err == nil:
		return wire.ExitOK
	case len(c.Args) > 0:
		fmt.Fprintf(os.Stderr, "%s%v\n", nsenter.Mark, err)
		return nsenter.Failed
	}
	return c.Fail(err)
}

func readSetup(from io.Reader) error {
	var g wire.Setup
	dec := json.NewDecoder(io.LimitReader(from, maxSetup))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&g); err != nil {
		return fault.Wrap(fault.Invalid, "setup", err)
	}
	return Environment(g)
}

// Environment creates on this machine what g describes. A failed step leaves nothing;
// the results of earlier steps stay.
func Environment(g wire.Setup) error {
	if n := g.Network; n != nil {
		if err := makeNetns(*n); err != nil {
			return fault.Op("network namespace "+n.Name, err)
		}
	}
	if r := g.Root; r != nil {
		if err := makeRoot(*r); err != nil {
			return fault.Op("root "+r.At, err)
		}
	}
	return nil
}
