// Package offline holds the commands that need nothing but a run folder or a
// table, or the record of a boot: report, serve, verify, export, analyse, compare,
// history, fleet, audit, boot export. They run on
// any machine; no driver, connection or agent is linked into them.
package offline

import (
	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
)

// reader is what every command of this package is given.
type reader struct {
	*cli.Streams
	version string
}

// Commands returns the commands in the order in which help lists them. boot are further
// commands of the command boot: those that boot machines.
func Commands(s *cli.Streams, version string, boot ...*cobra.Command) []*cobra.Command {
	r := reader{s, version}
	return []*cobra.Command{r.reportCommand(), r.serveCommand(), r.verifyCommand(), r.exportCommand(), r.analyse(),
		r.compare(), r.history(), r.fleet(),
		r.auditCommand(), r.bootCommand(boot)}
}
