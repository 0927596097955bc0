//go:build !linux

package setup

import (
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

func makeNetns(wire.Netns) error { return command.LinuxOnly("network namespaces exist") }

// Run fails: it exists on Linux only.
func (Teardown) Run() error { return command.LinuxOnly("teardown exists") }

func makeRoot(wire.Root) error { return command.LinuxOnly("overlay mounts exist") }
