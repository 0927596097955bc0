package site

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
	"bakeoff/publish/site/theme"
)

func (w writer) listCommand() *cobra.Command {
	return w.listerCommand("list [SITE]", "List posts and pages",
		"list prints the posts, pages and drafts, the newest first.",
		func(site.Listed) bool { return true })
}

func (w writer) draftsCommand() *cobra.Command {
	c := w.listerCommand("drafts [SITE]", "List drafts and scheduled posts",
		"drafts prints what is not published: drafts, and posts with a date in the future.",
		func(l site.Listed) bool { return !l.Published })
	c.AddCommand(w.publish())
	return c
}

func (w writer) listerCommand(use, short, long string, show func(site.Listed) bool) *cobra.Command {
	var asJSON bool
	name, _, _ := strings.Cut(use, " ")
	c := &cobra.Command{
		Use: use, Short: short, Long: long,
		Example: "  bakeoff site " + name + " blog\n  bakeoff site " + name + " --json blog",
		Args:    cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := listSite(folder(args))
			if err != nil {
				return err
			}
			shown := []site.Listed{}
			t := cli.NewTable("#", "date", "kind", "title", "tags", "file")
			for i, l := range all {
				if !show(l) {
					continue
				}
				shown = append(shown, l)
				kind := l.Kind
				if kind == "post" && !l.Published {
					kind = "scheduled"
				}
				t.Row(fmt.Sprint(i+1), l.Date.Format("2006-01-02 15:04"), kind, safetext.Line(l.Title),
					safetext.Line(strings.Join(l.Tags, ", ")), safetext.Line(l.File))
			}
			if asJSON {
				return w.PrintJSON(shown)
			}
			w.Print(t)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}

func listSite(dir string) ([]site.Listed, error) {
	s, err := site.Open(dir)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.List(time.Now())
}

func (w writer) publish() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "publish DRAFT", Short: "Move a draft to the posts",
		Long:    "publish moves a draft to the posts. The first build after the date of the post publishes it.",
		Example: "  bakeoff site drafts publish an-idea",
		Args:    cli.Each("the draft"),
		RunE: func(c *cobra.Command, args []string) error {
			return withPost(dir, args[0], func(s *site.Site, l site.Listed) error {
				to, err := s.Publish(l)
				if err != nil {
					return err
				}
				fmt.Fprintln(w.Out, safetext.Line(to))
				return nil
			})
		},
	}
	dirFlag(c, &dir)
	return c
}

// tagCount is a tag in a list.
type tagCount struct {
	Tag   string `json:"tag"`
	Posts int    `json:"posts"`
}

func (w writer) tags() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "tags [SITE]", Short: "List tags and how many posts have them",
		Long:    "tags prints the tags of published posts, the most frequent first.",
		Example: "  bakeoff site tags blog\n  bakeoff site tags --json blog",
		Args:    cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := listSite(folder(args))
			if err != nil {
				return err
			}
			counts := map[string]int{}
			for _, l := range all {
				if l.Kind == "post" && l.Published {
					for _, t := range l.Tags {
						counts[t]++
					}
				}
			}
			out := []tagCount{}
			for tag, n := range counts {
				out = append(out, tagCount{tag, n})
			}
			slices.SortFunc(out, func(x, y tagCount) int {
				return cmp.Or(cmp.Compare(y.Posts, x.Posts), strings.Compare(x.Tag, y.Tag))
			})
			if asJSON {
				return w.PrintJSON(out)
			}
			t := cli.NewTable("tag", "posts")
			for _, c := range out {
				t.Row(safetext.Line(c.Tag), fmt.Sprint(c.Posts))
			}
			w.Print(t)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	return c
}

func (w writer) themes() *cobra.Command {
	var preview string
	c := &cobra.Command{
		Use: "themes [SITE]", Short: "List the themes, or show them",
		Long: `themes lists the themes. With --preview, it builds the site once with every theme, in
folders below DIR; DIR/index.html shows all themes. Without SITE, it uses a sample site.`,
		Example: "  bakeoff site themes\n  bakeoff site themes --preview previews blog",
		Args:    cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			if preview != "" {
				dir := ""
				if len(args) > 0 {
					dir = args[0]
				}
				name, err := site.Preview(preview, dir, time.Now(), cli.Program(w.version))
				if err == nil {
					fmt.Fprintln(w.Out, name)
				}
				return err
			}
			t := cli.NewTable("theme", "about")
			for _, th := range theme.All() {
				t.Row(th.Name, th.About)
			}
			t.Row("random", "a theme that is drawn each day")
			w.Print(t)
			return nil
		},
	}
	c.Flags().StringVar(&preview, "preview", "", "write a page with all themes below `DIR`")
	return c
}
