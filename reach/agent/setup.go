package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Setup describes the network namespace and the root of an environment on a
// Linux host. `bakeoff-agent setup` makes both in one process: a program for
// each step would take longer than the steps.
type Setup struct {
	Network *Netns `json:"network,omitempty"`
	Root    *Root  `json:"root,omitempty"`
}

// Netns is a network namespace of an environment's own.
type Netns struct {
	// Name is what ip(8) knows it by.
	Name string `json:"name"`
	// Of is a process whose network namespace bears the name from then on;
	// 0 makes a new one.
	Of int `json:"of,omitempty"`
	// Link leads out of it; nil: it has nothing but a loopback interface.
	Link *Link `json:"link,omitempty"`
}

// Link is a pair of virtual Ethernet devices between an environment's
// namespace and a bridge in another.
type Link struct {
	Inside    string       `json:"inside"`    // name of the end in the environment's namespace
	MAC       string       `json:"mac"`       // of that end
	Addr      netip.Prefix `json:"addr"`      // IPv4, of that end
	Outer     string       `json:"outer"`     // name of the end at the bridge
	Namespace string       `json:"namespace"` // name of the namespace in which the bridge is
	Bridge    string       `json:"bridge"`
}

// Command returns the command that makes g, with the agent at path on the
// host, and goes on as `enter` with args, if there are any: Entered then reads
// what came of it.
func (g Setup) Command(path string, args ...string) (conn.Cmd, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return conn.Cmd{}, err
	}
	cmd := conn.Command(append([]string{path, "setup"}, args...)...)
	cmd.Stdin = bytes.NewReader(text)
	return cmd, nil
}

// maxSetup bounds the description of a setup, in bytes.
const maxSetup = maxRoot + 4<<10

// runSetup reads a Setup on standard input and makes it. What fails leaves
// nothing of its own step; what the steps before have made stays, under the
// names that the description gave it.
//
//	bakeoff-agent setup [FLAGS OF enter -- PROGRAM ARGUMENT…]
//
// With arguments it then goes on as enter does, in the same process. What
// fails is then said as enter says it.
func runSetup(c call) int {
	err := readSetup(c.stdin)
	switch {
	case err == nil && len(c.args) > 0:
		return c.fail(Enter(c.args))
	case err == nil:
		return ExitOK
	case len(c.args) > 0:
		fmt.Fprintf(os.Stderr, "%s%v\n", enterMark, err)
		return enterFailed
	}
	return c.fail(err)
}

func readSetup(from io.Reader) error {
	var g Setup
	dec := json.NewDecoder(io.LimitReader(from, maxSetup))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&g); err != nil {
		return fault.Wrap(fault.Invalid, "setup", err)
	}
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
