package main

import (
	"github.com/spf13/cobra"

	"bakeoff/manifest"
)

func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of lab files, for editors",
		Long: `schema prints the JSON Schema (2020-12) of lab files, with every driver and
workload of this program. Editors that speak the YAML language server read it
from a first line like this one:

  # yaml-language-server: $schema=lab.schema.json`,
		Example: "  bakeoff schema > lab.schema.json",
		Args:    between(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(manifest.JSONSchema(catalogue()))
			return err
		},
	}
}
