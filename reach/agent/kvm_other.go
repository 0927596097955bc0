//go:build !linux || !amd64

package agent

import "runtime"

func probeKVM() KVMResult {
	if runtime.GOOS != "linux" {
		return KVMResult{Reason: "there is no KVM on " + runtime.GOOS}
	}
	return KVMResult{Reason: "this agent has no probe guest for " + runtime.GOARCH}
}
