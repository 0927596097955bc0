package main

import (
	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
)

func (a *app) completion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for a shell",
		Long: `completion prints a script with which a shell completes commands, flags and the
names of drivers and workloads. The script for bash needs the package
bash-completion.`,
		Example: `  bakeoff completion bash > /etc/bash_completion.d/bakeoff
  bakeoff completion zsh > "${fpath[1]}/_bakeoff"
  bakeoff completion fish > ~/.config/fish/completions/bakeoff.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      cli.Between(1, 1, "the shell (bash, zsh or fish)"),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.Out)
			case "fish":
				return root.GenFishCompletion(a.Out, true)
			}
			return cli.Usage(c, fault.New(fault.Invalid, "unsupported shell %q; use bash, zsh or fish", args[0]))
		},
	}
}
