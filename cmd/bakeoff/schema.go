package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/audit"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	"bakeoff/prepare/install/spec"
	"bakeoff/provision/service"
	vmmanifest "bakeoff/provision/vm/manifest"
)

// schemas are the file formats, in the order in which help names them.
var schemas = []struct {
	name string
	text func() []byte
}{
	{"lab", func() []byte { return manifest.JSONSchema(session.Catalogue()) }},
	{"published", audit.JSONSchema},
	{"service", service.JSONSchema},
	{"install", spec.JSONSchema},
	{"guest", vmmanifest.JSONSchema},
}

func (a *app) schemaCommand() *cobra.Command {
	var names []string
	for _, s := range schemas {
		names = append(names, s.name)
	}
	return &cobra.Command{
		Use:   "schema [lab|published|service|install|guest]",
		Short: "Print the JSON Schema of lab files, published tables, services, installations or guests, for editors",
		Long: `schema prints a JSON Schema (2020-12). lab, the default, is the schema of lab files, with
every driver and workload of this program. The other names are published (the tables that
audit reads), service (service.yaml for image build), install (install.yaml for install
plan) and guest (the manifests of vm create). An editor with a YAML language server uses the
schema if the file begins with a line such as:

  # yaml-language-server: $schema=lab.schema.json`,
		Example: `  bakeoff schema > lab.schema.json
  bakeoff schema published > published.schema.json
  bakeoff schema service > service.schema.json
  bakeoff schema install > install.schema.json
  bakeoff schema guest > guest.schema.json`,
		Args:      cli.Between(0, 1, "lab, published, service, install or guest"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			name := "lab"
			if len(args) > 0 {
				name = args[0]
			}
			for _, s := range schemas {
				if s.name == name {
					_, err := a.Out.Write(s.text())
					return err
				}
			}
			return cli.Usage(c, fmt.Errorf("unknown schema %q; use one of %s", name, strings.Join(names, ", ")))
		},
	}
}
