// Package offline holds the commands that need nothing but a run folder or a
// table, or the record of a boot: report, serve, verify, export, analyse, compare,
// history, fleet, audit, boot export. They run on
// any machine; no driver, connection or agent is linked into them.
package offline

import (
	"context"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/archive/index"
)

// reader is what every command of this package is given.
type reader struct {
	*cli.Streams
	version string
	open    OpenIndex
}

// OpenIndex opens the index of the store in a folder.
type OpenIndex func(ctx context.Context, dir string) (*index.Index, error)

// Commands returns the commands in the order in which help lists them. boot are further
// commands of the command boot: those that boot machines. open opens stores, which this package
// does not: a store needs a client of registries.
func Commands(s *cli.Streams, version string, open OpenIndex, boot ...*cobra.Command) []*cobra.Command {
	r := reader{s, version, open}
	return []*cobra.Command{r.reportCommand(), r.serveCommand(), r.verifyCommand(), r.exportCommand(), r.analyse(),
		r.compare(), r.history(), r.fleet(),
		r.auditCommand(), r.bootCommand(boot)}
}
