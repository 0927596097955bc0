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
		Use:   "import SOURCE SITE",
		Short: "Import the posts of WordPress, Ghost, Nikola, Pelican, Hugo or Jekyll",
		Long: `import writes the posts of another system into the site. bakeoff recognizes
which of these systems wrote SOURCE:

  WordPress  the XML file of Tools, Export
  Ghost      the JSON file of Settings, Import/Export
  Nikola     its folder, or one of .rst, .md and .html files with lines ".. title: …"
  Pelican    its folder, or one of .rst, .md and .html files with "Title: …" and the like
  Hugo       its folder, or one of Markdown files, such as content, with front matter in
             TOML, YAML or JSON; files directly in SOURCE or in pages/ become pages
  Jekyll     its folder, or _posts or _drafts; the name of a post may give its date

reStructuredText becomes HTML. If bakeoff cannot convert a part of a file to HTML, it leaves
the file out, and prints the line number of that part.

Drafts, private posts, and posts for members or with a password become drafts. import
replaces no file, downloads nothing, and lists what it could not import. Copy images into
static/.`,
		Example: `  bakeoff site import hugo/content blog
  bakeoff site import pelican blog
  bakeoff site import wordpress.2026-01-31.xml blog
  bakeoff site import blog.ghost.2026-01-31.json blog
  bakeoff site import --json wordpress.2026-01-31.xml blog`,
		Args: cli.Each("the export or folder", "the site"),
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
