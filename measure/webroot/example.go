package webroot

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"bakeoff/base/lists"
)

// The length of the home page of the example in bytes, and the seed of the
// texts.
const (
	exampleHome = 4069
	exampleSeed = 0x73697465
)

// Example is a small blog: pages with links, a style sheet, images, a feed and
// a site map; 25 files, about 174 KB, with a home page of 4,069 bytes. It has a
// fixed seed and is always the same: it does not depend on a library's
// compression or markup.
var Example = sync.OnceValue(func() Site {
	g := &author{rng: rand.New(rand.NewPCG(exampleSeed, exampleSeed))}
	s, err := New(g.siteFiles()...)
	if err != nil {
		panic(err) // a test covers it
	}
	return s
})

// post is one article of the example.
type post struct {
	name, title, day, tag, image string
	body                         []string // paragraphs
}

// filePath is the path of the post.
func (p post) filePath() string { return "posts/" + p.name + ".html" }

// The subjects of the example. Each tag has its own page.
var (
	tags   = []string{"kernel", "network", "storage"}
	images = []string{"hills", "waves", "bricks"}
	titles = []string{
		"A quiet evening with a small server", "What the scheduler knew", "Notes on a slow disk",
		"Three cables and a switch", "The cache that remembered", "Moving house, one file at a time",
		"How long is a short wait", "Counting packets by hand", "A jail with a view", "The night of the full table",
	}
)

// siteFiles returns the files of the example.
func (g *author) siteFiles() []File {
	posts := g.writePosts()
	files := []File{
		{"style.css", []byte(styleSheet())},
		{"robots.txt", []byte("User-agent: *\nAllow: /\nSitemap: /sitemap.xml\n")},
		{"favicon.svg", []byte(favicon)},
		{"images/map.svg", g.drawRacks()},
		{"feed.xml", feedOf(posts)},
		{"about.html", pageLayout("About", "", "<h1>About</h1>\n<img src=\"/images/map.svg\" alt=\"A map of the machine "+
			"room\" width=\"640\" height=\"320\">\n"+g.paragraphs(5))},
		{"archive.html", pageLayout("Archive", "", "<h1>Archive</h1>\n"+postList(posts))},
		{Home, homePage(posts, g)},
	}
	for i, name := range images {
		files = append(files, File{"images/" + name + ".png", picture(i)})
	}
	for _, tag := range tags {
		of := lists.Filter(posts, func(p post) bool { return p.tag == tag })
		files = append(files, File{"tags/" + tag + ".html", pageLayout("About the "+tag, "",
			"<h1>About the "+tag+"</h1>\n<p>"+
				g.paragraph(4)+"</p>\n"+postList(of))})
	}
	for i, p := range posts {
		files = append(files, File{p.filePath(), article(posts, i)})
	}
	return append(files, File{"sitemap.xml", sitemap(files)})
}

func (g *author) writePosts() []post {
	var out []post
	for i, title := range titles {
		p := post{
			name: strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(title, ",", "")), " ", "-"), title: title,
			day: fmt.Sprintf("2025-%02d-%02d", 1+i, 3+2*i), tag: tags[i%len(tags)], image: images[i%len(images)],
		}
		for range 9 + i%4 {
			p.body = append(p.body, g.paragraph(6+g.rng.IntN(4)))
		}
		out = append(out, p)
	}
	return out
}

// pageLayout wraps main in the header and footer of all pages.
func pageLayout(title, description, main string) []byte {
	if description != "" {
		description = "<meta name=\"description\" content=\"" + description + "\">\n"
	}
	var nav strings.Builder
	for _, tag := range tags {
		fmt.Fprintf(&nav, "<a href=\"/tags/%s.html\">%[1]s</a>\n", tag)
	}
	return fmt.Appendf(nil, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s – The machine room</title>
%s<link rel="stylesheet" href="/style.css">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="alternate" href="/feed.xml" type="application/rss+xml" title="The machine room">
</head>
<body>
<header><a class="name" href="/index.html">The machine room</a>
<nav>
%s<a href="/archive.html">archive</a>
<a href="/about.html">about</a>
</nav></header>
<main>
%s</main>
<footer><p>The machine room is an example, made from a seed. `+
		`<a href="/feed.xml">Feed</a>, <a href="/sitemap.xml">map of the site</a>.</p></footer>
</body>
</html>
`, title, description, nav.String(), main)
}

// article is the page of a post, with links to its neighbors.
func article(posts []post, i int) []byte {
	p := posts[i]
	var b strings.Builder
	fmt.Fprintf(&b, "<article>\n<h1>%s</h1>\n<p class=\"day\"><time datetime=\"%s\">%[2]s</time>, <a "+
		"href=\"/tags/%s.html\">%[3]s</a></p>\n", p.title, p.day, p.tag)
	fmt.Fprintf(&b, "<img src=\"/images/%s.png\" alt=\"A pattern of %[1]s\" width=\"160\" height=\"181\">\n", p.image)
	for k, text := range p.body {
		if k > 0 && k%4 == 0 {
			fmt.Fprintf(&b, "<h2>Part %d</h2>\n", 1+k/4)
		}
		fmt.Fprintf(&b, "<p>%s</p>\n", text)
	}
	b.WriteString("</article>\n<p class=\"turn\">")
	if i > 0 {
		fmt.Fprintf(&b, "<a rel=\"prev\" href=\"/%s\">%s</a>", posts[i-1].filePath(), posts[i-1].title)
	}
	if i+1 < len(posts) {
		fmt.Fprintf(&b, " <a rel=\"next\" href=\"/%s\">%s</a>", posts[i+1].filePath(), posts[i+1].title)
	}
	b.WriteString("</p>\n")
	return pageLayout(p.title, firstSentence(p.body[0]), b.String())
}

// postList lists posts, the newest first.
func postList(posts []post) string {
	var b strings.Builder
	b.WriteString("<ul class=\"posts\">\n")
	for i := len(posts) - 1; i >= 0; i-- {
		p := posts[i]
		fmt.Fprintf(&b, "<li><time datetime=\"%s\">%[1]s</time> <a href=\"/%s\">%s</a><br>%s</li>\n", p.day, p.filePath(),
			p.title, firstSentence(p.body[0]))
	}
	b.WriteString("</ul>\n")
	return b.String()
}

// homePage is the home page: the newest posts, and a paragraph that fills the page
// to its exact length.
func homePage(posts []post, g *author) []byte {
	const slot = "@"
	whole := pageLayout("Home", "Notes from a small machine room",
		"<h1>The machine room</h1>\n"+postList(posts[len(posts)-6:])+
			"<p>"+slot+"</p>\n")
	before, after, _ := bytes.Cut(whole, []byte(slot))
	room := exampleHome - len(before) - len(after)
	text := g.paragraph(40)
	// Cut at a word; fill the rest with full stops.
	cut := strings.LastIndexByte(text[:room], ' ')
	text = text[:cut] + strings.Repeat(".", room-cut)
	return append(append(bytes.Clone(before), text...), after...)
}

func feedOf(posts []post) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rss version=\"2.0\"><channel>\n<title>The machine " +
		"room</title>\n<link>/index.html</link>\n<description>Notes from a small machine room</description>\n")
	for i := len(posts) - 1; i >= 0; i-- {
		p := posts[i]
		fmt.Fprintf(&b, "<item><title>%s</title><link>/%s</link>"+
			"<category>%s</category><description>%s</description></item>\n", p.title, p.filePath(), p.tag, p.body[0])
	}
	b.WriteString("</channel></rss>\n")
	return b.Bytes()
}

// sitemap lists the pages among files.
func sitemap(files []File) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<urlset " +
		"xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n")
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".html") {
			fmt.Fprintf(&b, "<url><loc>%s</loc></url>\n", f.URL())
		}
	}
	b.WriteString("</urlset>\n")
	return b.Bytes()
}

// Materials are the folders that a service may name: the content of files by path.
func Materials() map[string]map[string][]byte {
	site := map[string][]byte{}
	for _, f := range Example().Files {
		site[f.Name] = f.Body
	}
	return map[string]map[string][]byte{"example-site": site}
}
