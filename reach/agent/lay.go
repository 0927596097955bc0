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

// Ground is what an environment on a Linux host stands on. `bakeoff-agent lay`
// makes all of it in one process: a program for each step would take longer
// than the steps.
type Ground struct {
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
func (g Ground) Command(path string, args ...string) (conn.Cmd, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return conn.Cmd{}, err
	}
	cmd := conn.Command(append([]string{path, "lay"}, args...)...)
	cmd.Stdin = bytes.NewReader(text)
	return cmd, nil
}

// maxGround bounds the description of a ground, in bytes.
const maxGround = maxRoot + 4<<10

// runLay reads a Ground on standard input and makes it. What fails leaves
// nothing of its own step; what the steps before have made stays, under the
// names that the description gave it.
//
//	bakeoff-agent lay [FLAGS OF enter -- PROGRAM ARGUMENT…]
//
// With arguments it then goes on as enter does, in the same process. What
// fails is then said as enter says it.
func runLay(c call) int {
	err := readGround(c.stdin)
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

func readGround(from io.Reader) error {
	var g Ground
	dec := json.NewDecoder(io.LimitReader(from, maxGround))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&g); err != nil {
		return fault.Wrap(fault.Invalid, "lay", err)
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
