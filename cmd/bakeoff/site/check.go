package site

import (
	"fmt"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

func (w writer) checkCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [SITE]",
		Short: "Find broken links within the site",
		Long: `check reads the built pages, and lists links within the site to a file or an anchor that
does not exist. It connects to no server, so it does not check links to other sites. If a
link is broken, the exit code is 2.`,
		Example: "  bakeoff site check blog\n  bakeoff site check --json blog",
		Args:    cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := site.Open(folder(args))
			if err != nil {
				return err
			}
			defer s.Close()
			broken, checked, err := s.Check()
			if err != nil {
				return err
			}
			if asJSON {
				if broken == nil {
					broken = []site.Broken{}
				}
				if err := w.PrintJSON(broken); err != nil {
					return err
				}
			} else {
				for _, b := range broken {
					fmt.Fprintf(w.Out, "%s: %s: %s\n", b.Page, b.Link, b.Reason)
				}
				fmt.Fprintf(w.Out, "%s checked, %d broken\n", unit.Count(checked, "link"), len(broken))
			}
			if len(broken) > 0 {
				return fault.WithFix(fault.New(fault.Invalid, "%s broken", unit.Count(len(broken), "link")),
					"correct the posts that contain them, and build again")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}
