//go:build !linux || !amd64

package kvm

import (
	"runtime"

	"bakeoff/reach/wire"
)

func runGuest() wire.KVMResult {
	if runtime.GOOS != "linux" {
		return wire.KVMResult{Reason: "KVM does not exist on " + runtime.GOOS}
	}
	return wire.KVMResult{Reason: "bakeoff-agent has no probe guest for " + runtime.GOARCH}
}
