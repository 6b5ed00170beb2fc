"""Environment variables that the operator alone may set for programs: those that determine code,
configuration, connections or trust. Case is ignored (`http_proxy`, `npm_config_*`).

No such list is complete, since each program defines names of its own; decision 0033 says why a list is used
nevertheless. Sources: sudo (env.c, initial_badenv_table), ld.so(8), bash(1), and the programs' manuals.
"""

import re
from typing import Final

# Whole names.
_NAMES: Final = (
    # Search paths of programs, and folders of their own files and the user's.
    "PATH HOME SHELL TZDIR USERPROFILE APPDATA PATHEXT COMSPEC PSMODULEPATH",
    # Shells.
    "IFS CDPATH ENV BASHOPTS SHELLOPTS PS4 PROMPT_COMMAND GLOBIGNORE FPATH NULLCMD READNULLCMD ZDOTDIR",
    # The C library and terminals.
    "GCONV_PATH LOCPATH NLSPATH HOSTALIASES LOCALDOMAIN RES_OPTIONS TERMINFO TERMINFO_DIRS TERMCAP INPUTRC",
    # Programs that other programs start, and their options.
    "PAGER EDITOR VISUAL BROWSER DISPLAY XAUTHORITY MANPATH MANPAGER MANOPT MANROFFOPT",
    "LESS LESSOPEN LESSCLOSE LESSKEY LESSKEYIN LESSKEY_SYSTEM LESSKEYIN_SYSTEM LESSEDIT LESSHISTFILE MORE",
    # Interpreters and their packages.
    "CLASSPATH PHPRC AWKPATH AWKLIBPATH M4PATH TCLLIBPATH TCL_LIBRARY VIRTUAL_ENV ELECTRON_RUN_AS_NODE",
    # Compilers, make, editors.
    "CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS RUSTFLAGS MAKEFLAGS MFLAGS MAKEFILES",
    "VIM VIMINIT VIMRUNTIME MYVIMRC EXINIT EMACSLOADPATH EMACSDATA",
    # Archivers, transfers, version control.
    "GZIP BZIP BZIP2 ZIP UNZIP XZ_OPT XZ_DEFAULTS TAPE WGETRC NETRC LYNX_CFG CVSROOT CVS_RSH SVN_SSH HG",
    "HGRCPATH HGEDITOR HGMERGE HGPLAIN SCREENRC",
    # TLS, keys, directories, databases, containers.
    "SSLKEYLOGFILE GNUPGHOME GPG_AGENT_INFO LDAPCONF LDAPRC LDAPNOINIT TNS_ADMIN ODBCINI ODBCSYSINI",
    "ODBCINSTINI PSQLRC REGISTRY_AUTH_FILE CONTAINER_HOST CONTAINER_SSHKEY",
)

# Beginnings.
_FAMILIES: Final = (
    "LD_ DYLD_ _RLD BASH_ GLIBC_ MALLOC_",
    "PYTHON PIP_ PIPX_ UV_ CONDA_ POETRY_ PYENV_ PERL RUBY GEM_ BUNDLE_ LUA_ PHP_INI COMPOSER_ JULIA_ GUILE_",
    "JAVA_ JDK_ _JAVA_ MAVEN_ GRADLE_ ANT_ DOTNET_ CORECLR_ COR_ COMPLUS_ MONO_ NUGET_ ERL_ ELIXIR_ OCAML",
    "GHC_ NPM_CONFIG_ YARN_ PNPM_ COREPACK_ BUN_ DENO_ CARGO_ RUSTC RUSTUP_",
    "SSH_ RSYNC_ TAR_ CURL_ OPENSSL_ SSL_ GNUTLS_ NSS_ KRB5 SASL_ LDAPTLS_ PINENTRY_",
    "KUBE DOCKER_ BUILDKIT_ COMPOSE_ CONTAINERS_ PODMAN_ HELM_ ANSIBLE_ CLOUDSDK_ XDG_",
)

# Endings by which many programs name such variables.
_ENDINGS: Final = (
    "_HOME _OPTS _OPTIONS _COMMAND _EDITOR _PAGER _BROWSER _SHELL _RSH _ASKPASS _PRELOAD _PROXY _RCFILE",
    "_LIBRARY_PATH _MODULE_PATH _PLUGIN_PATH _PLUGIN_DIR _PLUGINS _CONFIG _CONFIG_FILE _CONFIG_DIR",
    "_CONFIG_PATH _CA_BUNDLE _CA_CERTS _CA_FILE _CACERT _CERT_FILE _CERT_DIR",
)

# Families with members that hold nothing but data: names, passwords, regions.
_PARTIAL: Final = (
    r"GIT_(?!(TOKEN|USER|USERNAME|PASSWORD|TERMINAL_PROMPT|(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE))$)\w+",
    r"NODE_(?!ENV$)\w+",
    r"GO[A-Z0-9]+",
    r"AWS_(?!(ACCESS_KEY_ID|SECRET_ACCESS_KEY|(SESSION|SECURITY)_TOKEN|(DEFAULT_)?REGION|DEFAULT_OUTPUT)$)\w+",
    r"GOOGLE_(APPLICATION_CREDENTIALS|EXTERNAL_ACCOUNT\w*)",
    r"PG(SYSCONFDIR|SERVICE\w*|PASSFILE|SSL\w*|OPTIONS|GSSLIB|REQUIRE\w*|LOCALEDIR)",
    r"(LIB)?MYSQL_(HOME|PLUGIN\w*|TEST_LOGIN_FILE|UNIX_PORT)",
    r"R_(HOME|PROFILE\w*|ENVIRON\w*|LIBS\w*|DEFAULT_PACKAGES|SHARE_DIR|INCLUDE_DIR|DOC_DIR)",
    r"TF_(CLI|DATA|PLUGIN|REATTACH|TEMP)\w*",
    r"VAULT_(ADDR|AGENT|CA|CLIENT|PROXY|SKIP|TLS)\w*",
)
_EXCEPT: Final = frozenset({"RSYNC_PASSWORD"})


def _words(lines: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for line in lines for word in line.split())


_RESERVED: Final = re.compile(
    rf"({_words(_NAMES)})|({_words(_FAMILIES)})\w*|\w*({_words(_ENDINGS)})|{'|'.join(_PARTIAL)}",
    re.IGNORECASE,
)


def is_reserved(name: str) -> bool:
    """Return whether only the operator may give a variable of this name to a program (PROGRAM_ENV_NAMES)."""
    return name.upper() not in _EXCEPT and _RESERVED.fullmatch(name) is not None
