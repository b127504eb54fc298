//! The files of the page: written by page/build.mjs.

use super::File;

/// A hash over all files.
pub(in crate::http) const BUILD: &str = "8f2cd023cae9d540";

pub(super) static INDEX: File = File {
    name: "index.html",
    content_type: "text/html; charset=utf-8",
    is_gzip: false,
    bytes: include_bytes!("index.html"),
};

pub(super) static FILES: [File; 43] = [
    File {
        name: "icon-8356FA75.svg",
        content_type: "image/svg+xml",
        is_gzip: true,
        bytes: include_bytes!("icon-8356FA75.svg.gz"),
    },
    File {
        name: "licences-04F1E6CB.txt",
        content_type: "text/plain; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("licences-04F1E6CB.txt.gz"),
    },
    File {
        name: "main-72PFBBY5.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("main-72PFBBY5.js.gz"),
    },
    File {
        name: "part-2B35R2LV.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2B35R2LV.js.gz"),
    },
    File {
        name: "part-2LRBZ7LU.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2LRBZ7LU.js.gz"),
    },
    File {
        name: "part-3DUYAAVH.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-3DUYAAVH.js.gz"),
    },
    File {
        name: "part-4JFG6AEG.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-4JFG6AEG.js.gz"),
    },
    File {
        name: "part-4MNHL27J.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-4MNHL27J.js.gz"),
    },
    File {
        name: "part-5UXKF6CR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-5UXKF6CR.js.gz"),
    },
    File {
        name: "part-6MMTRCVX.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-6MMTRCVX.js.gz"),
    },
    File {
        name: "part-77ZYTXII.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-77ZYTXII.js.gz"),
    },
    File {
        name: "part-A756H52Y.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-A756H52Y.js.gz"),
    },
    File {
        name: "part-AFGEWRJS.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AFGEWRJS.js.gz"),
    },
    File {
        name: "part-AUS36S46.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AUS36S46.js.gz"),
    },
    File {
        name: "part-CMLLYGAN.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-CMLLYGAN.js.gz"),
    },
    File {
        name: "part-E3FNXGYR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-E3FNXGYR.js.gz"),
    },
    File {
        name: "part-EVCOUSM7.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-EVCOUSM7.js.gz"),
    },
    File {
        name: "part-FN7TGZH2.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-FN7TGZH2.js.gz"),
    },
    File {
        name: "part-FZ3FES7J.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-FZ3FES7J.js.gz"),
    },
    File {
        name: "part-GB3MJ5SP.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-GB3MJ5SP.js.gz"),
    },
    File {
        name: "part-GTE2Z2TZ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-GTE2Z2TZ.js.gz"),
    },
    File {
        name: "part-GURYZ4GC.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-GURYZ4GC.js.gz"),
    },
    File {
        name: "part-IHOSRZRN.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-IHOSRZRN.js.gz"),
    },
    File {
        name: "part-II4P2SMR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-II4P2SMR.js.gz"),
    },
    File {
        name: "part-IM3MKKJD.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-IM3MKKJD.js.gz"),
    },
    File {
        name: "part-J4TNRDY3.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-J4TNRDY3.js.gz"),
    },
    File {
        name: "part-JBSL5OZ2.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-JBSL5OZ2.js.gz"),
    },
    File {
        name: "part-JR5ID3Q5.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-JR5ID3Q5.js.gz"),
    },
    File {
        name: "part-LF3DNFMY.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-LF3DNFMY.js.gz"),
    },
    File {
        name: "part-NIR2KS25.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NIR2KS25.js.gz"),
    },
    File {
        name: "part-NPFZDA74.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NPFZDA74.js.gz"),
    },
    File {
        name: "part-NQAYSHZJ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NQAYSHZJ.js.gz"),
    },
    File {
        name: "part-P4BCPXZF.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-P4BCPXZF.js.gz"),
    },
    File {
        name: "part-QCNFGDR3.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-QCNFGDR3.js.gz"),
    },
    File {
        name: "part-QOAS7USS.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-QOAS7USS.js.gz"),
    },
    File {
        name: "part-RPKYR6F3.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-RPKYR6F3.js.gz"),
    },
    File {
        name: "part-RPMN7FNU.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-RPMN7FNU.js.gz"),
    },
    File {
        name: "part-RWKYMXDT.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-RWKYMXDT.js.gz"),
    },
    File {
        name: "part-VA6SR3IZ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-VA6SR3IZ.js.gz"),
    },
    File {
        name: "part-WKKKNPOB.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WKKKNPOB.js.gz"),
    },
    File {
        name: "part-YGE37CJT.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YGE37CJT.js.gz"),
    },
    File {
        name: "part-ZR73CQ2B.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-ZR73CQ2B.js.gz"),
    },
    File {
        name: "style-7LOPOV2V.css",
        content_type: "text/css; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("style-7LOPOV2V.css.gz"),
    },
];
