package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/reach/agent"
)

// versionString is the version with the commit it was built from, where the
// build knows it.
func versionString() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if build := agent.BuildOf(info); build != "" {
			return version + "-" + build
		}
	}
	return version
}

// versionLine is what bakeoff version prints, and bakeoff --version.
func versionLine() string {
	return fmt.Sprintf("bakeoff %s %s %s/%s\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  bakeoff version",
		Args:    cli.Between(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.Out, versionLine())
			return err
		},
	}
}
