//go:build !linux

package agent

import "bakeoff/reach/agent/command"

func runTap(c command.Call) int { return c.Fail(command.LinuxOnly("tap devices exist")) }
