package spec

import (
	"cmp"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
)

// glibcLocales are the locales of glibc without character set and modifier. Sources: SUPPORTED of locales 2.36
// (Debian 12), and the files in /usr/share/i18n/locales of 2.41 (Debian 13).
const glibcLocales = `aa_(DJ|ER|ET)|ab_GE|af_ZA|agr_PE|ak_GH|am_ET|an_ES|anp_IN` +
	`|ar_(AE|BH|DZ|EG|IN|IQ|JO|KW|LB|LY|MA|OM|QA|SA|SD|SS|SY|TN|YE)|as_IN|ast_ES|ayc_PE|az_(AZ|IR)|be_BY|bem_ZM` +
	`|ber_(DZ|MA)|bg_BG|bhb_IN|bho_(IN|NP)|bi_VU|bn_(BD|IN)|bo_(CN|IN)|br_FR|brx_IN|bs_BA|byn_ER|ca_(AD|ES|FR|IT)` +
	`|ce_RU|chr_US|ckb_IQ|cmn_TW|crh_(RU|UA)|cs_CZ|csb_PL|cv_RU|cy_GB|da_DK|de_(AT|BE|CH|DE|IT|LI|LU)|doi_IN|dsb_DE` +
	`|dv_MV|dz_BT|el_(CY|GR)|en_(AG|AU|BW|CA|DK|GB|HK|IE|IL|IN|NG|NZ|PH|SC|SG|US|ZA|ZM|ZW)|eo` +
	`|es_(AR|BO|CL|CO|CR|CU|DO|EC|ES|GT|HN|MX|NI|PA|PE|PR|PY|SV|US|UY|VE)|et_EE|eu_(ES|FR)|fa_IR|ff_SN|fi_FI|fil_PH` +
	`|fo_FO|fr_(BE|CA|CH|FR|LU)|fur_IT|fy_(DE|NL)|ga_IE|gbm_IN|gd_GB|gez_(ER|ET)|gl_ES|gu_IN|gv_GB|ha_NG|hak_TW|he_IL` +
	`|hi_IN|hif_FJ|hne_IN|hr_HR|hsb_DE|ht_HT|hu_HU|hy_AM|ia_FR|id_ID|ig_NG|ik_CA|is_IS|it_(CH|IT)|iu_CA|ja_JP|ka_GE` +
	`|kab_DZ|kk_KZ|kl_GL|km_KH|kn_IN|ko_KR|kok_IN|ks_IN|ku_TR|kv_RU|kw_GB|ky_KG|lb_LU|lg_UG|li_(BE|NL)|lij_IT|ln_CD` +
	`|lo_LA|lt_LT|ltg_LV|lv_LV|lzh_TW|mag_IN|mai_(IN|NP)|mdf_RU|mfe_MU|mg_MG|mhr_RU|mi_NZ|miq_NI|mjw_IN|mk_MK|ml_IN` +
	`|mn_MN|mni_IN|mnw_MM|mr_IN|ms_MY|mt_MT|my_MM|nan_TW|nb_NO|nds_(DE|NL)|ne_NP|nhn_MX|niu_(NU|NZ)|nl_(AW|BE|NL)` +
	`|nn_NO|nr_ZA|nso_ZA|oc_FR|om_(ET|KE)|or_IN|os_RU|pa_(IN|PK)|pap_(AW|CW)|pl_PL|ps_AF|pt_(BR|PT)|quz_PE|raj_IN` +
	`|rif_MA|ro_RO|ru_(RU|UA)|rw_RW|sa_IN|sah_RU|sat_IN|sc_IT|scn_IT|sd_IN|se_NO|sgs_LT|shn_MM|shs_CA|si_LK|sid_ET` +
	`|sk_SK|sl_SI|sm_WS|so_(DJ|ET|KE|SO)|sq_(AL|MK)|sr_(ME|RS)|ss_ZA|ssy_ER|st_ZA|su_ID|sv_(FI|SE)|sw_(KE|TZ)|syr` +
	`|szl_PL|ta_(IN|LK)|tcy_IN|te_IN|tg_TJ|th_TH|the_NP|ti_(ER|ET)|tig_ER|tk_TM|tl_PH|tn_ZA|to_TO|tok|tpi_PG` +
	`|tr_(CY|TR)|ts_ZA|tt_RU|ug_CN|uk_UA|unm_US|ur_(IN|PK)|uz_UZ|ve_ZA|vi_VN|wa_BE|wae_CH|wal_ET|wo_SN|xh_ZA|yi_US` +
	`|yo_NG|yue_HK|yuw_PG|zgh_MA|zh_(CN|HK|SG|TW)|zu_ZA`

// localeModifiers are those of glibc, each with its locales.
var localeModifiers = [][2]string{{"abegede", `gez_(ER|ET)`}, {"cyrillic", `uz_UZ`}, {"devanagari", `(ks|sd)_IN`},
	{"euro", `br_FR|ca_ES|de_(AT|BE|DE|LU)|el_GR|en_IE|es_ES|eu_(ES|FR)|fi_FI|fr_(BE|FR|LU)|ga_IE|gl_ES|it_IT|` +
		`nl_(BE|NL)|pt_PT|sv_FI|wa_BE`},
	{"iqtelif", `tt_RU`}, {"latin", `be_BY|nan_TW|sr_RS`}, {"saaho", `aa_ER`}, {"valencia", `ca_ES`}}

// charsets are those of glibc.
const charsets = `(ARMSCII-8|BIG5(-HKSCS)?|CP125[15]|EUC-(JP|KR|TW)|GB18030|GB2312|GBK|GEORGIAN-PS|` +
	`ISO-8859-[0-9]+|KOI8-[RTU]|PT154|RK1048|TIS-620|UTF-8)`

// localesWith matches the locales of glibc, each with a character set that matches, and its modifiers.
func localesWith(charset string) string {
	all := `(` + glibcLocales + `)` + charset
	for _, m := range localeModifiers {
		all += `|(` + m[1] + `)` + charset + `@` + m[0]
	}
	return `(C\.UTF-8|` + all + `)`
}

var (
	// localeName matches a value of LANG, whose character set is UTF-8.
	localeName = lazy.Compile(`^` + localesWith(`(\.(UTF-8|utf8))?`) + `$`)
	// localeLine matches a line of locale.gen, with any character set.
	localeLine = lazy.Compile(`^` + localesWith(`(\.(`+charsets+`|utf8))?`) + `( ` + charsets + `)?$`)
	// newLocales matches those that glibc 2.36, of Debian 12, does not have.
	newLocales = lazy.Compile(
		`^(ab_GE|crh_RU|gbm_IN|kv_RU|ltg_LV|mdf_RU|scn_IT|ssy_ER|su_ID|tok|zgh_MA)([.@ ]|$)`)
)

// LocaleLine returns the line of locale.gen that builds a locale: its name, and its character set.
func LocaleLine(locale string) string {
	if strings.Contains(locale, " ") {
		return locale
	}
	return locale + " " + cmp.Or(charsetOf(locale), "UTF-8")
}

// charsetOf returns the character set in the name of a locale, "" if there is none.
func charsetOf(name string) string {
	_, charset, _ := strings.Cut(name, ".")
	charset, _, _ = strings.Cut(charset, "@")
	if charset == "utf8" {
		return "UTF-8"
	}
	return charset
}

// locales checks the locale and those that are built besides it.
func (c checker) locales(s *Spec) {
	has := func(locale string, keys ...string) {
		if s.Recipe == "debian-zfs" && s.Release == "bookworm" && newLocales.MatchString(locale) {
			c.Add(c.at(keys), "use release trixie, or choose another one", "Debian 12 has no locale %s",
				yamltree.Show(locale))
		}
	}
	c.want(s.Locale, localeName, remedies[localeName], "locale")
	has(s.Locale, "locale")
	for i, l := range s.Locales {
		at := []string{"locales", strconv.Itoa(i)}
		c.want(l, localeLine, remedies[localeLine], at...)
		has(l, at...)
		name, behind, ok := strings.Cut(l, " ")
		if in := charsetOf(name); ok && in != "" && in != behind {
			c.Add(c.at(at), "write one character set", "%s names two character sets", yamltree.Show(l))
		}
	}
	if s.Libc == "musl" && len(s.Locales) > 0 {
		c.Add(c.at([]string{"locales"}), "leave it out", "musl has no locales")
	}
}
