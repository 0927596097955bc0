package theme

// All returns all themes: one line and one folder for each.
func All() []Theme {
	return []Theme{
		read("default", "quiet and readable, with a blue accent"),
		read("academic", "a paper: serif type, numbered sections, justified text"),
		read("amber", "an amber tube in the dark, honey in daylight"),
		read("blueprint", "a drawing board: a fine grid, thin lines, technical lettering"),
		read("brutal", "raw: thick borders, hard shadows, one loud yellow"),
		read("candy", "pink and violet, round and soft"),
		read("cards", "a grid of cards on a wide page"),
		read("clear", "the largest contrast, large type, thick lines under links"),
		read("daemon", "red and charcoal, with double lines"),
		read("forest", "moss and bark, with a serif for headings"),
		read("harbor", "a deep band of sea above plain text"),
		read("ledger", "green-bar paper: striped rows, tabular figures"),
		read("magazine", "a large first story, then two columns of others"),
		read("manual", "a page of the manual: monospaced, capital headings, indented text"),
		read("mono", "gray only: rank by weight and size"),
		read("newspaper", "a broadsheet: serif type, a centered masthead, columns of summaries"),
		read("nordic", "cold blues on snow, in rounded panels"),
		read("paper", "a book page: serif text on warm paper"),
		read("sidebar", "the menu in a column beside the text"),
		read("solar", "balanced warm and cold tones after a well-known terminal palette"),
		read("swiss", "a poster of the fifties: large grotesque type, one red, no ornament"),
		read("terminal", "a console: one typeface of one width, prompts before headings"),
		read("typewriter", "typed on cream paper, with a wide margin"),
	}
}
