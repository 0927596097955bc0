package cli

import (
	"errors"
	"os"
	"syscall"

	"bakeoff/base/fault"
)

// The environment variables that name a folder, and those that name a file.
var (
	folderVariables = []string{"BAKEOFF_STATE", "BAKEOFF_CACHE", "BAKEOFF_STORE"}
	fileVariables   = []string{"BAKEOFF_LOCK", "BAKEOFF_CLUSTER", "BAKEOFF_SSH_CONFIG"}
)

// CheckVariables refuses an environment variable that names a file where bakeoff needs a
// folder, or a folder where it needs a file. What does not exist is not refused.
func CheckVariables(env func(string) string) error {
	for _, name := range folderVariables {
		info, err := os.Stat(env(name))
		if err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
			return fault.WithFix(fault.New(fault.Invalid, "%s=%s is not a folder", name, env(name)),
				"set "+name+" to a folder, or unset it")
		}
	}
	for _, name := range fileVariables {
		info, err := os.Stat(env(name))
		if err == nil && info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
			return fault.WithFix(fault.New(fault.Invalid, "%s=%s is not a file", name, env(name)),
				"set "+name+" to a file, or unset it")
		}
	}
	return nil
}
