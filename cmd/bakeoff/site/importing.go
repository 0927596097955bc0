package site

import (
	"fmt"

	"github.com/spf13/cobra"

	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

func (w writer) importPosts() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "import FOLDER SITE",
		Short: "Import the posts of a Hugo site",
		Long: `import reads Hugo's Markdown files below FOLDER, such as content, with front matter in
TOML, YAML or JSON, and writes them into the site. Drafts become drafts; files directly in
FOLDER or in pages/ become pages. It replaces no file. Copy images into static/.`,
		Example: "  bakeoff site import hugo/content blog",
		Args:    cli.Each("the folder", "the site"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := site.Open(args[1])
			if err != nil {
				return err
			}
			defer s.Close()
			done, err := s.Import(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return w.PrintJSON(done)
			}
			for _, n := range done.Notes {
				fmt.Fprintln(w.Err, "bakeoff: "+n)
			}
			fmt.Fprintf(w.Out, "%s: %s imported, %d exist already\n", args[1], unit.Count(len(done.Files), "file"),
				len(done.Skipped))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}
