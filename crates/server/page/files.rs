//! The files of the page: written by page/build.mjs.

use super::File;

/// A hash over all files.
pub(in crate::http) const BUILD: &str = "04ae3b551b4a575f";

pub(super) static INDEX: &[u8] = include_bytes!("index.html");

pub(super) static FILES: [File; 42] = [
    File::gzip("icon-8356FA75.svg", "image/svg+xml", include_bytes!("icon-8356FA75.svg.gz")),
    File::gzip("licences-04F1E6CB.txt", "text/plain; charset=utf-8", include_bytes!("licences-04F1E6CB.txt.gz")),
    File::gzip("main-7QEKY4IA.js", "text/javascript; charset=utf-8", include_bytes!("main-7QEKY4IA.js.gz")),
    File::gzip("part-2B35R2LV.js", "text/javascript; charset=utf-8", include_bytes!("part-2B35R2LV.js.gz")),
    File::gzip("part-2LRBZ7LU.js", "text/javascript; charset=utf-8", include_bytes!("part-2LRBZ7LU.js.gz")),
    File::gzip("part-4HP6PM4G.js", "text/javascript; charset=utf-8", include_bytes!("part-4HP6PM4G.js.gz")),
    File::gzip("part-4JFG6AEG.js", "text/javascript; charset=utf-8", include_bytes!("part-4JFG6AEG.js.gz")),
    File::gzip("part-4MNHL27J.js", "text/javascript; charset=utf-8", include_bytes!("part-4MNHL27J.js.gz")),
    File::gzip("part-5SNSI3PF.js", "text/javascript; charset=utf-8", include_bytes!("part-5SNSI3PF.js.gz")),
    File::gzip("part-6MMTRCVX.js", "text/javascript; charset=utf-8", include_bytes!("part-6MMTRCVX.js.gz")),
    File::gzip("part-AFGEWRJS.js", "text/javascript; charset=utf-8", include_bytes!("part-AFGEWRJS.js.gz")),
    File::gzip("part-AQ7GVDOU.js", "text/javascript; charset=utf-8", include_bytes!("part-AQ7GVDOU.js.gz")),
    File::gzip("part-AUS36S46.js", "text/javascript; charset=utf-8", include_bytes!("part-AUS36S46.js.gz")),
    File::gzip("part-BX67QQG6.js", "text/javascript; charset=utf-8", include_bytes!("part-BX67QQG6.js.gz")),
    File::gzip("part-DPQAJUSG.js", "text/javascript; charset=utf-8", include_bytes!("part-DPQAJUSG.js.gz")),
    File::gzip("part-DSYX7K6I.js", "text/javascript; charset=utf-8", include_bytes!("part-DSYX7K6I.js.gz")),
    File::gzip("part-ENCMDPLN.js", "text/javascript; charset=utf-8", include_bytes!("part-ENCMDPLN.js.gz")),
    File::gzip("part-EYQDDQMQ.js", "text/javascript; charset=utf-8", include_bytes!("part-EYQDDQMQ.js.gz")),
    File::gzip("part-GS3X5JPQ.js", "text/javascript; charset=utf-8", include_bytes!("part-GS3X5JPQ.js.gz")),
    File::gzip("part-GTE2Z2TZ.js", "text/javascript; charset=utf-8", include_bytes!("part-GTE2Z2TZ.js.gz")),
    File::gzip("part-GURYZ4GC.js", "text/javascript; charset=utf-8", include_bytes!("part-GURYZ4GC.js.gz")),
    File::gzip("part-KX4SXVOC.js", "text/javascript; charset=utf-8", include_bytes!("part-KX4SXVOC.js.gz")),
    File::gzip("part-M2744CXK.js", "text/javascript; charset=utf-8", include_bytes!("part-M2744CXK.js.gz")),
    File::gzip("part-MS2U57ZL.js", "text/javascript; charset=utf-8", include_bytes!("part-MS2U57ZL.js.gz")),
    File::gzip("part-NAAQQW54.js", "text/javascript; charset=utf-8", include_bytes!("part-NAAQQW54.js.gz")),
    File::gzip("part-NDMTVT46.js", "text/javascript; charset=utf-8", include_bytes!("part-NDMTVT46.js.gz")),
    File::gzip("part-NIR2KS25.js", "text/javascript; charset=utf-8", include_bytes!("part-NIR2KS25.js.gz")),
    File::gzip("part-NUJJS637.js", "text/javascript; charset=utf-8", include_bytes!("part-NUJJS637.js.gz")),
    File::gzip("part-PMV5DQJX.js", "text/javascript; charset=utf-8", include_bytes!("part-PMV5DQJX.js.gz")),
    File::gzip("part-QCNFGDR3.js", "text/javascript; charset=utf-8", include_bytes!("part-QCNFGDR3.js.gz")),
    File::gzip("part-QGUXCGWA.js", "text/javascript; charset=utf-8", include_bytes!("part-QGUXCGWA.js.gz")),
    File::gzip("part-R2IEONMN.js", "text/javascript; charset=utf-8", include_bytes!("part-R2IEONMN.js.gz")),
    File::gzip("part-RPMN7FNU.js", "text/javascript; charset=utf-8", include_bytes!("part-RPMN7FNU.js.gz")),
    File::gzip("part-RUV2MUYN.js", "text/javascript; charset=utf-8", include_bytes!("part-RUV2MUYN.js.gz")),
    File::gzip("part-VGPSZJWH.js", "text/javascript; charset=utf-8", include_bytes!("part-VGPSZJWH.js.gz")),
    File::gzip("part-VZX33THX.js", "text/javascript; charset=utf-8", include_bytes!("part-VZX33THX.js.gz")),
    File::gzip("part-WK5YE2QO.js", "text/javascript; charset=utf-8", include_bytes!("part-WK5YE2QO.js.gz")),
    File::gzip("part-WKKKNPOB.js", "text/javascript; charset=utf-8", include_bytes!("part-WKKKNPOB.js.gz")),
    File::gzip("part-XBHX7OML.js", "text/javascript; charset=utf-8", include_bytes!("part-XBHX7OML.js.gz")),
    File::gzip("part-XHFOVOG3.js", "text/javascript; charset=utf-8", include_bytes!("part-XHFOVOG3.js.gz")),
    File::gzip("part-YGE37CJT.js", "text/javascript; charset=utf-8", include_bytes!("part-YGE37CJT.js.gz")),
    File::gzip("style-562UYHEA.css", "text/css; charset=utf-8", include_bytes!("style-562UYHEA.css.gz")),
];
